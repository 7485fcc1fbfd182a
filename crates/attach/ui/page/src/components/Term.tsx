import { useId, useRef } from "preact/hooks";
import { explanations } from "../prefs";
import { TERMS, type TermId } from "../terms";

/** A term that says what it means when it is pressed. */
export function Term({ id, children }: { id: TermId; children?: preact.ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const name = useId();
  const place = () => {
    const at = button.current?.getBoundingClientRect();
    const popover = box.current;
    if (!at || !popover) return;
    const width = Math.min(320, innerWidth - 24);
    popover.style.width = `${width}px`;
    popover.style.left = `${Math.max(12, Math.min(at.left, innerWidth - width - 12))}px`;
    popover.style.top = `${at.bottom + 6}px`;
  };
  const above = () => {
    const at = button.current?.getBoundingClientRect();
    const popover = box.current;
    if (!at || !popover || !popover.matches(":popover-open")) return;
    if (popover.getBoundingClientRect().bottom > innerHeight - 8) popover.style.top = `${Math.max(8, at.top - popover.offsetHeight - 6)}px`;
  };
  return (
    <>
      <button ref={button} type="button" class="term" popovertarget={name} onClick={place}>
        {children ?? TERMS[id].name}
      </button>
      <div ref={box} id={name} class="popover" popover="auto" onToggle={above}>
        <strong>{TERMS[id].name}</strong>
        <p>{TERMS[id].text}</p>
      </div>
    </>
  );
}

/** The terms of a section, explained in place if somebody wants that. */
export function Explain({ ids }: { ids: readonly TermId[] }) {
  if (!explanations.value) return null;
  return (
    <dl class="explain">
      {ids.map((id) => (
        <div key={id}>
          <dt>{TERMS[id].name}</dt>
          <dd>{TERMS[id].text}</dd>
        </div>
      ))}
    </dl>
  );
}
