import { useLayoutEffect, useRef } from "preact/hooks";
import { question } from "../confirm";

/** The question that is open, if one is. Enter does not lose anything: the focus is on Cancel. */
export function Confirm() {
  const box = useRef<HTMLDialogElement>(null);
  const asked = question.value;
  useLayoutEffect(() => {
    if (asked && !box.current?.open) box.current?.showModal();
    if (!asked && box.current?.open) box.current.close();
  }, [asked]);
  return (
    <dialog ref={box} class="confirm" aria-labelledby="confirm-title" aria-describedby="confirm-text" onClose={() => question.value?.answer(false)}>
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
