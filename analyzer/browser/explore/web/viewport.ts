// The visible part of a large picture. The mouse wheel, dragging and keys move it.

export class Viewport {
  x0 = 0; x1 = 1; y0 = 0; y1 = 1;
  private width = 1; private height = 1;

  constructor(private readonly redraw: () => void, private readonly mostHigh = Infinity) {}

  size(width: number, height: number): void {
    if (width === this.width && height === this.height) return;
    this.width = Math.max(1, width);
    this.height = Math.max(1, height);
    this.all();
  }
  all(): void { this.set(0, this.width, 0, this.height); }

  set(x0: number, x1: number, y0: number, y1: number): void {
    [this.x0, this.x1] = inside(x0, x1, this.width);
    const extra = Math.max(0, y1 - y0 - this.mostHigh) / 2;
    [this.y0, this.y1] = inside(y0 + extra, y1 - extra, this.height);
  }

  zoom(factor: number, atX: number, atY: number, both = true): void {
    const cx = this.x0 + (this.x1 - this.x0) * atX, cy = this.y0 + (this.y1 - this.y0) * atY;
    const w = (this.x1 - this.x0) * factor, h = (this.y1 - this.y0) * (both ? factor : 1);
    this.set(cx - w * atX, cx + w * (1 - atX), cy - h * atY, cy + h * (1 - atY));
    this.redraw();
  }
  move(dx: number, dy: number): void {
    this.set(this.x0 + dx, this.x1 + dx, this.y0 + dy, this.y1 + dy);
    this.redraw();
  }
  // Shows a cell in the center of this many columns and rows.
  showCell(x: number, y: number, columns: number, rows: number): void {
    this.set(x + 0.5 - columns / 2, x + 0.5 + columns / 2, y + 0.5 - rows / 2, y + 0.5 + rows / 2);
  }

  key(event: KeyboardEvent): boolean {
    const stepX = (this.x1 - this.x0) / 8, stepY = (this.y1 - this.y0) / 8;
    switch (event.key) {
      case "+": case "=": this.zoom(0.7, 0.5, 0.5); return true;
      case "-": this.zoom(1 / 0.7, 0.5, 0.5); return true;
      case "0": this.all(); this.redraw(); return true;
      case "ArrowLeft": this.move(-stepX, 0); return true;
      case "ArrowRight": this.move(stepX, 0); return true;
      case "ArrowUp": this.move(0, -stepY); return true;
      case "ArrowDown": this.move(0, stepY); return true;
      default: return false;
    }
  }

  // `area` returns the picture's position on the canvas.
  attach(canvas: HTMLCanvasElement, area: () => { x: number; y: number; w: number; h: number }, click: (x: number, y: number) => void): void {
    let from: { x: number; y: number; moved: boolean } | null = null;
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      const a = area();
      const atX = clamp((event.offsetX - a.x) / a.w), atY = clamp((event.offsetY - a.y) / a.h);
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, atX, atY, !event.shiftKey);
    }, { passive: false });
    canvas.addEventListener("pointerdown", event => {
      from = { x: event.clientX, y: event.clientY, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
      if (!from) return;
      const dx = event.clientX - from.x, dy = event.clientY - from.y;
      if (!from.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
      const a = area();
      from = { x: event.clientX, y: event.clientY, moved: true };
      this.move((-dx / a.w) * (this.x1 - this.x0), (-dy / a.h) * (this.y1 - this.y0));
    });
    canvas.addEventListener("pointerup", event => {
      if (from && !from.moved) click(event.offsetX, event.offsetY);
      from = null;
    });
  }
}

function clamp(share: number): number { return Math.min(1, Math.max(0, share)); }

function inside(low: number, high: number, size: number): [number, number] {
  const width = Math.min(size, Math.max(high - low, Math.min(1, size)));
  const start = Math.min(Math.max(0, low), size - width);
  return [start, start + width];
}
