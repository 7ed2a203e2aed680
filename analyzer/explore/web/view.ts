// What the views share: the place that is selected, and how a view is told of it.
import { Incident } from "./data";

export interface Place { rank: number; comm: number; op: number } // -1 none

export interface Page {
  incident: Incident;
  place(): Place;
  select(place: Partial<Place>): void;
  open(view: string, place?: Partial<Place>): void;
}

export interface View {
  readonly root: HTMLElement;
  draw(): void; // it is on the screen, or its size, the colors or the place changed
  key?(event: KeyboardEvent): boolean; // true: it was used
}
