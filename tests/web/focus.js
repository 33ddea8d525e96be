// Which controls have no ring when they have the focus.
() => [...(document.querySelector("dialog:modal") ?? document).querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
  .filter((element) => element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length && !element.disabled)
  .slice(0, 60)
  .filter((element) => {
    element.blur();
    element.focus({ focusVisible: true, preventScroll: true });
    const style = getComputedStyle(element);
    return document.activeElement !== element || ((style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) && !element.querySelector("rect"));
  })
  .map((element) => `no focus ring: ${element.outerHTML.replace(/\s+/g, " ").slice(0, 140)}`)
