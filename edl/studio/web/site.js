// The pages of the studio, chosen by the path of the address.

import { showNewRun } from "./new_run.js";
import { showRun } from "./run_page.js";
import { showRuns } from "./run_list.js";

const root = document.getElementById("content"), { pathname } = location;
for (const link of document.querySelectorAll("nav a:not(.brand)")) {
  if (link.getAttribute("href") === pathname) link.setAttribute("aria-current", "page");
}
if (pathname.startsWith("/run/")) showRun(root, decodeURIComponent(pathname.slice(5)));
else if (pathname === "/new") showNewRun(root);
else showRuns(root);
