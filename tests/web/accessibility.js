// What is wrong with a page as it is shown now: names, order, contrast and size.
([leastContrast, leastTarget]) => {
  const problems = [];
  const shown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && element.getClientRects().length > 0;
  const reveal = (element) => element.outerHTML.replace(/\s+/g, " ").slice(0, 140);
  const complain = (rule, element) => problems.push(`${rule}: ${reveal(element)}`);
  const words = (element) => (element.textContent || "").trim();
  const named = (element) => Boolean(
    element.getAttribute("aria-label")?.trim()
    || (element.getAttribute("aria-labelledby") || "").split(" ").some((id) => document.getElementById(id)?.textContent.trim())
    || [...(element.labels || [])].some((label) => words(label))
    || (!["INPUT", "SELECT", "TEXTAREA"].includes(element.tagName) && words(element))
    || element.getAttribute("title")?.trim()
    || element.querySelector?.("title, [aria-label]"));

  for (const control of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [role=region], meter"))
    if (shown(control) && !named(control)) complain("a control has no name", control);
  for (const picture of document.querySelectorAll("img, svg"))
    if (shown(picture) && !picture.closest("[aria-hidden=true]") && !(picture.getAttribute("alt") || named(picture))) complain("a picture has no text", picture);

  const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(shown);
  if (headings.filter((heading) => heading.tagName === "H1").length !== 1) problems.push(`there are ${headings.filter((heading) => heading.tagName === "H1").length} h1`);
  headings.reduce((before, heading) => {
    const level = Number(heading.tagName[1]);
    if (level > before + 1) complain(`a heading of level ${level} follows one of level ${before}`, heading);
    return level;
  }, 0);
  for (const part of document.querySelectorAll("dl > *, dl > div > *"))
    if (!["DT", "DD", "DIV"].includes(part.tagName)) complain("a list of terms has something else in it", part);
  const regions = [...document.querySelectorAll("[role=region]")].filter(shown).map((region) => region.getAttribute("aria-label"));
  for (const region of new Set(regions.filter((name, place) => regions.indexOf(name) !== place))) problems.push(`two regions are called ${region}`);
  for (const link of document.querySelectorAll("svg a[aria-label]"))
    for (const text of link.querySelectorAll("text"))
      if (!link.getAttribute("aria-label").startsWith(words(text).replace(/^\W+|\W+$/g, ""))) complain("a name does not begin as it looks", link);
  if (document.querySelectorAll("main").length !== 1) problems.push("there is not one main");
  if (!document.documentElement.lang) problems.push("the page has no language");
  if (!document.title.trim()) problems.push("the page has no title");
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((id, place) => ids.indexOf(id) !== place))) problems.push(`two elements are called ${id}`);
  for (const element of document.querySelectorAll("[aria-controls], [aria-labelledby], [aria-describedby]"))
    for (const name of ["aria-controls", "aria-labelledby", "aria-describedby"])
      for (const id of (element.getAttribute(name) || "").split(" ").filter(Boolean))
        if (!document.getElementById(id)) complain(`${name} names nothing`, element);

  // Painted, because mixed colours are computed in other spaces than rgb().
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const numbers = (color) => {
    if (!known.has(color)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(color, [red, green, blue, alpha / 255]);
    }
    return known.get(color);
  };
  const over = (front, back) => front.slice(0, 3).map((part, place) => part * front[3] + back[place] * (1 - front[3])).concat(1);
  const light = (color) => color.slice(0, 3).map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, place) => sum + c * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(numbers(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((back, front) => over(front, back), [255, 255, 255, 1]);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || seen.has(element) || !shown(element) || element.closest("svg, script, style, :disabled, [aria-hidden=true]")) continue;
    seen.add(element);
    const style = getComputedStyle(element), back = behind(element);
    let opacity = 1;
    for (let at = element; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
    const front = numbers(style.color);
    const [one, other] = [light(over([...front.slice(0, 3), front[3] * opacity], back)), light(back)].sort((a, b) => b - a);
    const contrast = (one + 0.05) / (other + 0.05);
    if (contrast < leastContrast) complain(`contrast ${contrast.toFixed(2)}`, element);
  }

  for (const target of document.querySelectorAll("button, select, input:not([type=hidden]), textarea, summary, nav a, .button")) {
    if (!shown(target)) continue;
    const box = target.getBoundingClientRect();
    if (box.height + 0.5 < leastTarget || box.width + 0.5 < leastTarget) complain(`a target of ${Math.round(box.width)} × ${Math.round(box.height)}`, target);
  }
  return problems;
}
