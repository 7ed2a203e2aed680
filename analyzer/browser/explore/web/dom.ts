// Small helpers. Texts are added to the page only as text nodes, never as markup.

type Child = Node | string | null | undefined | false;

export function el<K extends keyof HTMLElementTagNameMap>(tag: K, className = "", ...children: Child[]): HTMLElementTagNameMap[K] {
  const out = document.createElement(tag);
  if (className) out.className = className;
  for (const child of children) if (child) out.append(child);
  return out;
}

export function button(text: string, click: () => void, className = ""): HTMLButtonElement {
  const out = el("button", className, text);
  out.type = "button";
  out.addEventListener("click", click);
  return out;
}

export function count(n: number): string { return n.toLocaleString("en-US"); }
export function plural(n: number, one: string): string { return `${count(n)} ${one}${n === 1 ? "" : "s"}`; }

export function payload(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes, unit = 0;
  while (value >= 1024 && unit + 1 < units.length) { value /= 1024; unit++; }
  return `${value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toPrecision(3)} ${units[unit]}`;
}
export function gigabytes(rate: number): string { return (rate / 1e9).toPrecision(3); }
export function percent(share: number): string { return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`; }

// Gives the canvas this size in device pixels and returns its context. Returns null if the size is zero.
export function context(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const scale = window.devicePixelRatio || 1;
  if (width < 1 || height < 1) return null;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const g = canvas.getContext("2d");
  g?.setTransform(scale, 0, 0, scale, 0, 0);
  return g;
}

export function fitText(g: CanvasRenderingContext2D, text: string, width: number): string {
  if (g.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (g.measureText(text.slice(0, middle) + "…").width <= width) low = middle; else high = middle - 1;
  }
  return low > 0 ? text.slice(0, low) + "…" : "";
}
