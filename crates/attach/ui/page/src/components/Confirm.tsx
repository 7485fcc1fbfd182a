import { useLayoutEffect, useRef } from "preact/hooks";
import { question } from "../confirm";

/** The question that is open, if one is. Enter does not lose anything: the focus is on Cancel. */
export function Confirm() {
  const box = useRef<HTMLDialogElement>(null);
  const asked = question.value;
  const shown = useRef(asked);
  useLayoutEffect(() => {
    shown.current = asked;
    if (asked && !box.current?.open) box.current?.showModal();
    if (!asked && box.current?.open) box.current.close();
  }, [asked]);
  // The browser tells of the end of a dialog later, as a task. The next question may be there or on view by then: it stays.
  const closed = () => {
    if (!box.current?.open && question.value === shown.current) question.value?.answer(false);
  };
  return (
    <dialog ref={box} class="confirm" aria-labelledby="confirm-title" aria-describedby="confirm-text" onClose={closed}>
      {asked && (
        <>
          <h2 id="confirm-title">{asked.title}</h2>
          <p id="confirm-text">{asked.text}</p>
          <div class="row end">
            <button type="button" autofocus onClick={() => asked.answer(false)}>
              Cancel
            </button>
            <button type="button" class="danger" onClick={() => asked.answer(true)}>
              {asked.action}
            </button>
          </div>
        </>
      )}
    </dialog>
  );
}
