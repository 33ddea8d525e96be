// Applies the chosen theme before the page is drawn, so that it does not flash.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("segue-theme"); } catch { /* storage is not available */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
