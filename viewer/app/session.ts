import { isTareError } from "../../src/base/errors.ts";
import { splitInnerPaths } from "../../src/bytes/resolver.ts";
import type { ChosenFile, OpenRequest, Overview } from "../shared/protocol.ts";
import type { PasswordQuestion } from "./password-dialog.tsx";
import { ReaderClient } from "./reader-client.ts";

/** The current state of the page. */
export type Phase =
  | { readonly kind: "start" }
  | { readonly kind: "opening"; readonly label: string }
  | { readonly kind: "choosing"; readonly files: readonly ChosenFile[]; readonly candidates: readonly string[] }
  | { readonly kind: "failed"; readonly label: string; readonly error: unknown }
  /** Vaults and, last, the content on screen: a file of the one before. */
  | { readonly kind: "open"; readonly stack: readonly Overview[] };

export interface SessionState {
  readonly phase: Phase;
  readonly question: PasswordQuestion | undefined;
}

/** The opened content, and how it was opened. Views read `state` and are notified when it changes. */
export class Session {
  readonly reader = new ReaderClient((label) => this.#ask(label));
  state: SessionState = { phase: { kind: "start" }, question: undefined };
  readonly #onChange: () => void;
  #problem: string | undefined;
  #asking: Promise<unknown> = Promise.resolve();

  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  /** The content on screen. */
  get current(): Overview | undefined {
    const { phase } = this.state;
    return phase.kind === "open" ? phase.stack.at(-1) : undefined;
  }

  async openFiles(files: readonly ChosenFile[], primary?: string): Promise<void> {
    if (files.length === 0) return;
    await this.#open({ kind: "files", files, primary }, primary ?? files[0]?.path ?? "", []);
  }

  async openUrl(address: string, inside: readonly string[], allowOrigins: readonly string[]): Promise<void> {
    const [outer = "", ...inner] = splitInnerPaths(address);
    const url = new URL(outer, location.href).href;
    await this.#open({ kind: "url", url, allowOrigins }, url, []);
    for (const path of [...inner, ...inside]) if (this.state.phase.kind === "open") await this.openEntry(path);
  }

  /** Opens a file of the vault on screen, in place. */
  async openEntry(path: string): Promise<void> {
    const { phase } = this.state;
    const { current } = this;
    if (phase.kind !== "open" || current === undefined) return;
    await this.#open({ kind: "entry", target: current.target, path }, path, phase.stack);
  }

  /** Goes back to a vault that something was opened from. */
  leaveTo(depth: number): void {
    const { phase } = this.state;
    if (phase.kind !== "open") return;
    for (const { target } of phase.stack.slice(depth).reverse()) void this.reader.call("close", { target });
    this.#show({ kind: "open", stack: phase.stack.slice(0, depth) });
  }

  start(): void {
    this.leaveTo(0);
    this.#show({ kind: "start" });
  }

  async #open(request: OpenRequest, label: string, below: readonly Overview[]): Promise<void> {
    if (below.length === 0) this.leaveTo(0);
    this.#show({ kind: "opening", label });
    try {
      const reply = await this.#openLocked(request);
      if (reply.kind === "opened") this.#show({ kind: "open", stack: [...below, reply.overview] });
      else if (request.kind === "files")
        this.#show({ kind: "choosing", files: request.files, candidates: reply.candidates });
    } catch (error) {
      const isDeclined = isTareError(error) && error.code === "usage/password.missing";
      if (isDeclined && below.length > 0) this.#show({ kind: "open", stack: below });
      else if (isDeclined) this.#show({ kind: "start" });
      else this.#show({ kind: "failed", label, error });
    }
  }

  /** Asks again while the password is wrong. */
  async #openLocked(request: OpenRequest) {
    this.#problem = undefined;
    for (;;) {
      try {
        return await this.reader.call("open", request);
      } catch (error) {
        if (!isTareError(error) || error.code !== "usage/password.wrong") throw error;
        this.#problem = "That password does not open it.";
      }
    }
  }

  /** One question at a time. */
  #ask(label: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const asked = this.#asking.then(() => this.#askNow(label));
    this.#asking = asked;
    return asked;
  }

  #askNow(label: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    return new Promise((resolve) => {
      const answer: PasswordQuestion["answer"] = (password) => {
        this.#set({ ...this.state, question: undefined });
        resolve(password);
      };
      this.#set({ ...this.state, question: { label, problem: this.#problem, answer } });
    });
  }

  #show(phase: Phase): void {
    this.#set({ ...this.state, phase });
  }

  #set(state: SessionState): void {
    this.state = state;
    this.#onChange();
  }
}
