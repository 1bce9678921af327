// The list of runs with thumbnails.

import { element } from "./elements.js";
import { ask, pathOf } from "./server.js";

const REFRESH_SECONDS = 3;

export async function showRuns(root) {
  const list = element("ul", { class: "runs" }), note = element("p", { class: "problem", role: "status" });
  root.replaceChildren(element("h1", {}, "Runs"), note, list);
  const refresh = async () => {
    try {
      const { runs } = await ask("/api/runs");
      note.textContent = runs.length ? "" : "There are no runs yet. Draw a maze and start one: New run.";
      list.replaceChildren(...runs.map((run) => element("li", {}, card(run))));
    } catch (error) {
      note.textContent = String(error.message);
    }
  };
  await refresh();
  setInterval(refresh, 1000 * REFRESH_SECONDS);
}

function card(run) {
  const image = run.thumbnail
    ? element("img", { src: pathOf(run.name, "/files/thumbnail"), alt: `Skills of ${run.name}`, loading: "lazy" })
    : run.status;
  const how = run.method === "edl" ? `${run.explore} + ${run.discover}` : run.method;
  const success = run.goal_success == null ? "" : ` · ${Math.round(100 * run.goal_success)}% at the goal`;
  return element("a", { class: "card", href: `/run/${encodeURIComponent(run.name)}` },
    element("div", { class: "picture" }, image), element("h3", {}, run.name),
    element("p", {}, run.message ?? `${run.env}, ${run.num_skills} skills, ${how}${success}`),
    element("p", {}, element("span", { class: "badge", "data-status": run.status }, run.status)));
}
