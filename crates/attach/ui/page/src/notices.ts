// What was done and what went wrong, for a person to read.

import { signal } from "@preact/signals";
import { ApiError } from "./api";

export interface Notice {
  id: number;
  kind: "done" | "failed";
  text: string;
}

export const notices = signal<readonly Notice[]>([]);

let next = 1;
/** What was done goes by itself; what failed stays until somebody closes it. */
const DONE_MS = 5000;
/** Failures that are shown: older ones make room. */
const SHOWN = 3;

export function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

export function done(text: string): void {
  const id = add("done", text);
  setTimeout(() => dismiss(id), DONE_MS);
}

export function failed(text: string): void {
  add("failed", text);
}

function add(kind: Notice["kind"], text: string): number {
  const id = next++;
  // The same error again is no second one. Of what was done only the last is news.
  const others = notices.value.filter((notice) => notice.text !== text && notice.kind !== "done");
  notices.value = [...others, { id, kind, text }].slice(-SHOWN);
  return id;
}

/** Does what somebody asked for, and reports what has changed, or what has not and why. Returns whether it went well. */
export async function attempt<T>(act: () => Promise<T>, words: { done?: string | ((answer: T) => string); failed: string }): Promise<boolean> {
  let answer: T;
  try {
    answer = await act();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    failed(`${words.failed}: ${error.message}`);
    return false;
  }
  if (words.done !== undefined) done(typeof words.done === "string" ? words.done : words.done(answer));
  return true;
}
