// A page that is opened from a file may not start a Worker. The search then runs in a hidden frame with the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow, script = frame.contentDocument.createElement("script");
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = () => {};
      this.loaded = new Promise((done) => script.addEventListener("load", () => done(inside)));
      script.src = url;
      frame.contentDocument.body.append(script);
    }

    async postMessage(data) {
      const inside = await this.loaded;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }

    terminate() {}
  };
}
