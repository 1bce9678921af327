// What a page runs.

import { start } from "./app.js";

start();
