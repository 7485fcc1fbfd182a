// What a person chose: kept in the browser, and harmless to lose.

import { effect, signal } from "@preact/signals";

function stored(key: string, fallback: string): string {
  try {
    return localStorage.getItem(`tranche.${key}`) ?? fallback;
  } catch {
    return fallback;
  }
}

function store(key: string, value: string): void {
  try {
    localStorage.setItem(`tranche.${key}`, value);
  } catch {
    // A browser that keeps nothing: the choice holds until the page is closed.
  }
}

export type Scheme = "auto" | "light" | "dark";

export const scheme = signal<Scheme>((["light", "dark"] as const).find((name) => name === stored("scheme", "")) ?? "auto");
export const explanations = signal(stored("explain", "off") === "on");
/** Seconds that the charts show. */
export const span = signal(Number(stored("span", "60")) || 60);
/** What the charts show: reads, writes or both. */
export type Direction = "both" | "read" | "write";
export const direction = signal<Direction>("both");
/** Namespaces that the charts leave out. */
export const hidden = signal<ReadonlySet<number>>(new Set());

/** Raised by one when colours have changed: what draws on a canvas depends on it. */
export const palette = signal(0);

export function toggleHidden(nsid: number): void {
  const next = new Set(hidden.value);
  if (!next.delete(nsid)) next.add(nsid);
  hidden.value = next;
}

/** Applies the choices to the document, now and when they change. */
export function applyPrefs(): void {
  effect(() => {
    const name = scheme.value;
    if (name === "auto") delete document.documentElement.dataset["scheme"];
    else document.documentElement.dataset["scheme"] = name;
    store("scheme", name);
    colours.clear();
    palette.value = palette.peek() + 1;
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    colours.clear();
    palette.value += 1;
  });
  effect(() => store("explain", explanations.value ? "on" : "off"));
  effect(() => store("span", String(span.value)));
}

const colours = new Map<string, string>();
let probe: HTMLElement | null = null;

/** The colour that a custom property of the style sheet has in the scheme of now, for a canvas. */
export function colour(name: string): string {
  const known = colours.get(name);
  if (known) return known;
  if (!probe) {
    probe = document.createElement("i");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(--${name})`;
  const value = getComputedStyle(probe).color;
  colours.set(name, value);
  return value;
}

const DASHES: readonly (readonly number[])[] = [[], [7, 4], [2, 3], [10, 3, 2, 3], [4, 2], [12, 4]];
/** How many colours of namespaces the style sheet has. */
const SERIES = 6;

/** Colour and dash of a namespace's lines. Both differ, so that no one need tell colours apart. */
export function lineOf(index: number): { colour: string; dash: readonly number[] } {
  const dash = DASHES[(index + Math.floor(index / SERIES)) % DASHES.length] ?? [];
  return { colour: `series-${(index % SERIES) + 1}`, dash };
}
