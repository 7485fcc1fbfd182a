// Questions before something is lost.

import { signal } from "@preact/signals";

export interface Question {
  title: string;
  text: string;
  /** What the button that does it says. */
  action: string;
  answer: (yes: boolean) => void;
}

export const question = signal<Question | null>(null);

/** Asks, and is true if the person wants it. */
export function confirm(title: string, text: string, action: string): Promise<boolean> {
  return new Promise((resolve) => {
    question.value = {
      title,
      text,
      action,
      answer: (yes) => {
        question.value = null;
        resolve(yes);
      },
    };
  });
}
