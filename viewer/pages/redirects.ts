import { SourceError } from "../../src/base/errors.ts";
import type { HttpRequest, HttpResponse, HttpTransport } from "../../src/bytes/http/transport.ts";
import { BLOCKED } from "../shared/protocol.ts";

/** Browsers report a violation in a task of its own, soon after the request fails. */
const REPORT_MS = 100;

/** Fails at once, by its own name, where a redirect leads to a server that the policy does not name. */
export function noticingRedirects({ request, ...transport }: HttpTransport): HttpTransport {
  return {
    ...transport,
    async request(exchange: HttpRequest): Promise<HttpResponse> {
      const violation = watchViolations(exchange.url);
      try {
        return await request(exchange);
      } catch (error) {
        throw (await violation.happened()) ? blocked(exchange.url, error) : error;
      } finally {
        violation.leave();
      }
    },
  };
}

/** The policy names the server of every request that is sent, so what it blocks is where a redirect led. */
function watchViolations(url: string): { happened(): Promise<boolean>; leave(): void } {
  const { origin } = new URL(url);
  let report = (): void => undefined;
  const reported = new Promise<boolean>((resolve) => {
    report = () => resolve(true);
  });
  const take = (event: Event): void => {
    const { blockedURI = "" } = event as SecurityPolicyViolationEvent;
    if (blockedURI.startsWith(origin)) report();
  };
  addEventListener("securitypolicyviolation", take);
  return {
    happened: () => Promise.race([reported, new Promise<false>((resolve) => setTimeout(resolve, REPORT_MS, false))]),
    leave: () => removeEventListener("securitypolicyviolation", take),
  };
}

function blocked(url: string, cause: unknown): SourceError {
  const message = "Cannot read: the server redirects to another one, and this page may ask only the server of its link";
  return new SourceError(BLOCKED, message, { source: url }, { cause, hint: "Allow the other server if you trust it" });
}
