"use strict";
const PERIOD_MS = 5000, STALE_MS = Number(document.body.dataset.staleMs);
let seen = Date.now(), why = "";

// Inside Airflow the page follows Airflow's theme; by itself it follows the browser's.
const outer = parent !== window ? parent.document.documentElement : null;
function follow() {
  const theme = ["dark", "light"].find((name) => outer.classList.contains(name));
  if (theme) document.documentElement.dataset.theme = theme;
}
if (outer) {
  follow();
  new MutationObserver(follow).observe(outer, { attributes: true, attributeFilter: ["class"] });
}

// The frame may not navigate Airflow's window, but a link of that window may.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-top]");
  if (!link || !outer) return;
  event.preventDefault();
  const above = parent.document.createElement("a");
  above.href = link.href;
  above.click();
});

function tell() {
  const age = Date.now() - seen, old = age > STALE_MS, stale = document.getElementById("stale");
  document.body.classList.toggle("old", old);
  stale.hidden = !old;
  if (old) stale.textContent = `? UNKNOWN: this page could not be refreshed for ${Math.round(age / 1000)} s, so its content is out of date. ${why}`;
}

async function refresh() {
  try {
    const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(20000) });
    if (!answer.ok) throw new Error([401, 403].includes(answer.status) ? "Sign in to Airflow again." : `HTTP ${answer.status}`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const open of document.querySelectorAll("details[open]")) fresh.getElementById(open.id)?.setAttribute("open", "");
    for (const part of ["main", "#clock"]) document.querySelector(part).replaceWith(fresh.querySelector(part));
    seen = Date.now();
  } catch (trouble) {
    why = trouble.message;
  }
  setTimeout(refresh, PERIOD_MS);
}
setTimeout(refresh, PERIOD_MS);
setInterval(tell, 1000);
