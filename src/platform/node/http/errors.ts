import { isTareError, SourceError, type TareError } from "../../../base/errors.ts";
import { MalformedReply } from "./reply.ts";

/** The proxy refuses to connect; the message gives its answer. */
export class ProxyRefusal extends Error {
  override readonly name = "ProxyRefusal";
}

interface Mapping {
  readonly code: `source/${string}`;
  readonly reason: string;
  readonly hint?: string;
  readonly transient: boolean;
}

const UNREACHABLE: Omit<Mapping, "reason"> = {
  code: "source/http.unreachable",
  hint: "Check the address and the network",
  // A server that restarts refuses connections for a moment. Opening gives up sooner than reading.
  transient: true,
};

const BROKEN: Mapping = { code: "source/http.network", reason: "the connection broke", transient: true };
const SILENT: Mapping = { code: "source/http.timeout", reason: "the server did not answer in time", transient: true };

const MAPPINGS: Readonly<Record<string, Mapping>> = {
  ECONNREFUSED: { ...UNREACHABLE, reason: "the server refuses connections" },
  EHOSTUNREACH: { ...UNREACHABLE, reason: "there is no way to the server" },
  ENETUNREACH: { ...UNREACHABLE, reason: "there is no way to the server" },
  ENOTFOUND: { ...UNREACHABLE, reason: "no server has this name", transient: false },
  EAI_AGAIN: { ...UNREACHABLE, reason: "the name cannot be looked up right now" },
  ECONNRESET: BROKEN,
  EPIPE: BROKEN,
  ETIMEDOUT: SILENT,
};

/** Turns errors of sockets and the system into a SourceError that says whether a retry can help. */
export function transportError(error: unknown, label: string): TareError {
  if (isTareError(error)) return error;
  const code = codeOf(error);
  const mapping = MAPPINGS[code ?? ""] ?? guess(error, code);
  const message = `Cannot reach "${label}": ${mapping.reason}`;
  return new SourceError(
    mapping.code,
    message,
    { source: label },
    {
      hint: mapping.hint,
      cause: error,
      transient: mapping.transient,
    },
  );
}

function guess(error: unknown, code: string | undefined): Mapping {
  if (error instanceof ProxyRefusal) {
    const hint = "Check the proxy variables";
    return { code: "source/http.proxy", reason: error.message, hint, transient: false };
  }
  if (error instanceof MalformedReply) {
    return { code: "source/http.reply", reason: `its reply cannot be used, ${error.message}`, transient: true };
  }
  if (code !== undefined && /^(ERR_TLS|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|ERR_SSL)/.test(code)) {
    const hint = "Name your own authority with NODE_EXTRA_CA_CERTS=FILE";
    return { code: "source/http.tls", reason: `its certificate is not trusted (${code})`, hint, transient: false };
  }
  return { ...BROKEN, reason: code === undefined ? BROKEN.reason : `the connection failed (${code})` };
}

/** If a connection failed on every address, Node hides the code inside an AggregateError or a cause. */
function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if ("code" in error && typeof error.code === "string") return error.code;
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error.cause;
  return inner === undefined ? undefined : codeOf(inner);
}
