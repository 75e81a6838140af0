/** Redirects that the policy of the page blocks: the reader notices them, and the page asks where they lead. */

/** What the page asks the worker that follows redirects, and its answer: an origin, or none if no reply came. */
export interface RedirectQuestion {
  readonly url: string;
}
export interface RedirectAnswer {
  readonly origin: string | undefined;
}

export const BLOCKED = "source/http.blocked-redirect";
