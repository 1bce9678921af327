// Making elements of a page. Text is always a text node, never markup.

/** An element with attributes and children. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== ""));
  return made;
}

/** A control with its name. */
export function labelled(name, control) {
  return element("label", {}, element("span", {}, name), control);
}
