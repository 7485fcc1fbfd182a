import type { Allowed } from "../api";

interface Props {
  allowed: Allowed;
  /** What cannot be done. */
  what: string;
  /** Why that is, as a rule: for servers that do not say it. */
  why: string;
}

/** Why a control does nothing, in the server's words where it has some. */
export function Why({ allowed, what, why }: Props) {
  if (allowed === true) return null;
  return (
    <p class="why">
      {what}: {typeof allowed === "string" && allowed !== "" ? allowed : why}
    </p>
  );
}
