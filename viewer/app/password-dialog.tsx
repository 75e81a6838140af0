import { useEffect, useRef } from "preact/hooks";
import { lastName } from "../shared/protocol.ts";

export interface PasswordQuestion {
  readonly label: string;
  /** The reason for asking again. */
  readonly problem: string | undefined;
  readonly answer: (password: Uint8Array<ArrayBuffer> | undefined) => void;
}

/** Asks for a password. It goes only to the reader, and the field is emptied at once. */
export function PasswordDialog({ question }: { readonly question: PasswordQuestion }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    field.current?.focus();
  }, []);
  const take = (): Uint8Array<ArrayBuffer> | undefined => {
    const input = field.current;
    if (input === null) return undefined;
    const bytes = new TextEncoder().encode(input.value);
    input.value = "";
    return bytes;
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    question.answer(take());
  };
  const cancel = (event: Event): void => {
    event.preventDefault();
    take()?.fill(0);
    question.answer(undefined);
  };
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="password-title" onCancel={cancel}>
      <form onSubmit={submit}>
        <h2 id="password-title">Password</h2>
        <p class="soft">
          <span class="mono">{lastName(question.label)}</span> is encrypted. The password stays in this page and is not
          kept.
        </p>
        <label for="password">Password</label>
        <input
          ref={field}
          id="password"
          type="password"
          autocomplete="off"
          aria-invalid={question.problem !== undefined}
          aria-describedby={question.problem === undefined ? undefined : "password-problem"}
        />
        {question.problem === undefined ? null : (
          <p id="password-problem" class="problem" role="alert">
            {question.problem}
          </p>
        )}
        <div class="buttons">
          <button type="button" onClick={cancel}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Unlock
          </button>
        </div>
      </form>
    </dialog>
  );
}
