// The theme that was chosen, before the first paint; without a choice the system's.
"use strict";
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* storage is off: the choice lasts for this page */ }
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  root.dataset.js = "";
  document.addEventListener("DOMContentLoaded", () => {
    // The form to log in has no such button.
    document.getElementById("theme")?.addEventListener("click", () => {
      const now = root.dataset.theme || (dark.matches ? "dark" : "light");
      root.dataset.theme = now === "dark" ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch { /* as above */ }
      document.dispatchEvent(new Event("theme"));
    });
  });
})();
