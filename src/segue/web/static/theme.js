// Runs before the page is drawn, so that it does not flash: the theme the reader has chosen, if any.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("segue-theme"); } catch { /* a browser that keeps nothing */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
