// Light and dark: the system's, until the switch says otherwise; the choice is remembered.
(function (Canopy) {
  "use strict";

  const STORE = "canopy-theme";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];

  function chosen() {
    return localStorage.getItem(STORE);
  }

  function isDark() {
    return chosen() ? chosen() === "dark" : dark.matches;
  }

  function apply() {
    document.body.classList.toggle("dark", isDark());
    document.documentElement.style.colorScheme = isDark() ? "dark" : "light";
    for (const listener of listeners) listener();
  }

  function flip() {
    const next = isDark() ? "light" : "dark";
    if ((next === "dark") === dark.matches) localStorage.removeItem(STORE);
    else localStorage.setItem(STORE, next);
    apply();
  }

  dark.addEventListener("change", apply);

  Canopy.theme = { apply, flip, isDark, on: (listener) => listeners.push(listener) };
})(window.Canopy = window.Canopy || {});
