import { back, link, reason } from "../live";
import { dismiss, notices } from "../notices";

/** What has happened, and why where that is known. */
function words(how: "gone" | "lost", why: string): [string, string] {
  // The server's reason is a sentence of its own.
  if (how === "gone") return [why || "The drive does not answer.", ""];
  return ["The connection to the live view is lost.", why];
}

/** Whether the drive is there, in the one place where nobody overlooks it. */
export function Banner() {
  const now = link.value;
  const [what, why] = now === "gone" || now === "lost" ? words(now, reason.value) : ["", ""];
  return (
    <div role="status" aria-live="assertive" class="banner-room">
      {what !== "" ? (
        <p class="banner bad">
          <svg viewBox="0 0 20 20" aria-hidden="true">
            <path d="M10 2 19 18H1Z" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round" />
            <path d="M10 7.5v5M10 15v.6" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" />
          </svg>
          <span>
            <strong>{what}</strong> {why} The page shows the last known state, and continues by itself.
          </span>
        </p>
      ) : back.value !== "" ? (
        <p class="banner good">
          <svg viewBox="0 0 20 20" aria-hidden="true">
            <path d="m4 10.5 4 4 8-9" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" />
          </svg>
          <strong>The {back.value} is back.</strong>
        </p>
      ) : null}
    </div>
  );
}

/** What was done, and what failed in the server's words. */
export function Notices() {
  return (
    <div class="notices">
      <div role="status" aria-live="polite">
        {notices.value
          .filter((notice) => notice.kind === "done")
          .map((notice) => (
            <p key={notice.id} class="notice done">
              {notice.text}
            </p>
          ))}
      </div>
      <div role="alert">
        {notices.value
          .filter((notice) => notice.kind === "failed")
          .map((notice) => (
            <p key={notice.id} class="notice failed">
              <span>{notice.text}</span>
              <button type="button" class="quiet" aria-label="Close this message" onClick={() => dismiss(notice.id)}>
                ×
              </button>
            </p>
          ))}
      </div>
    </div>
  );
}
