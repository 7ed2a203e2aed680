// All colors come from the style sheet, which switches between light and dark.
import { State } from "./file";

const names: [number, string][] = [
  [State.outside, "outside"], [State.completed, "completed"], [State.gone, "gone"], [State.issued, "issued"], [State.enqueued, "enqueued"],
  [State.started, "started"], [State.waiting, "waiting"], [State.noData, "nodata"], [State.failed, "failed"], [State.mismatch, "mismatch"],
  [State.missing, "missing"], [State.behind, "behind"],
];

export interface Palette { state: string[]; text: string; faint: string; line: string; back: string; accent: string; bad: string; band: string }

export function palette(): Palette {
  const style = getComputedStyle(document.documentElement), read = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const state: string[] = [];
  for (const [number, name] of names) state[number] = read(name);
  return {
    state, text: read("text"), faint: read("faint"), line: read("line"), back: read("back"), accent: read("accent"), bad: read("bad"), band: read("band"),
  };
}

// The severity of a state. If several cells share a pixel, the most severe state is drawn.
export const severity: number[] = [];
[State.outside, State.gone, State.completed, State.issued, State.enqueued, State.started, State.behind, State.waiting, State.noData, State.failed,
  State.mismatch, State.missing].forEach((state, place) => { severity[state] = place; });

export const FONT = '12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
export const BOLD = "bold " + FONT;
