// What all views share: the selected place, and the functions through which the page calls a view.
import { Incident } from "./data";

export interface Place { rank: number; comm: number; op: number } // -1 if none

export interface Page {
  incident: Incident;
  place(): Place;
  select(place: Partial<Place>): void;
  open(view: string, place?: Partial<Place>): void;
}

export interface View {
  readonly root: HTMLElement;
  draw(): void; // called when the view appears, or when its size, the colors or the place changes
  key?(event: KeyboardEvent): boolean; // returns true if the view used the key
}
