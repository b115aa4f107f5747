// Inside a page that compares two sessions: it takes the theme of the shell, and passes keys on.

import { joinShell } from "/web/assets/page_changes.js";

joinShell(["Escape"]);
