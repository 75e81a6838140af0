import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { OpenRequest } from "../../../api/inputs.ts";
import { durationIn, type S3Options } from "../../../api/options.ts";
import { SourceError, UsageError } from "../../../base/errors.ts";
import { fetchTransport, type HttpTransport } from "../../../bytes/http/transport.ts";
import type { S3Endpoint } from "../../../bytes/s3/address.ts";
import { S3Client } from "../../../bytes/s3/client.ts";
import type { S3Settings } from "../../../bytes/s3/session.ts";
import type { Credentials } from "../../../bytes/s3/sigv4.ts";
import type { Engine } from "../../../primitives/engine.ts";
import { errnoOf, fileError } from "../errors.ts";
import { homeFolder } from "../files/own-folder.ts";
import type { Environment } from "../http/proxy-environment.ts";
import { type NodeTransport, nodeTransport } from "../http/transport.ts";

/** The variables that say the same. */
function variablesOf(s3: S3Options): Environment {
  const given = {
    AWS_ENDPOINT_URL_S3: s3.endpoint,
    AWS_REGION: s3.region,
    AWS_ACCESS_KEY_ID: s3.accessKeyId,
    AWS_SECRET_ACCESS_KEY: s3.secretAccessKey,
    // A key that is given comes without the token of another one.
    AWS_SESSION_TOKEN: s3.accessKeyId === undefined ? s3.sessionToken : (s3.sessionToken ?? ""),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

export interface NodeS3Options {
  readonly engine: Engine;
  /** Where to look up AWS_* and proxies: `process.env` if absent. */
  readonly environment?: Environment | undefined;
  /** What the caller names itself: it wins. */
  readonly s3?: S3Options | undefined;
  /** Sends every request in place of tare's own client. */
  readonly transport?: HttpTransport | undefined;
  readonly timeoutMs?: number | undefined;
  readonly retries?: number | undefined;
  /** Connections at a time. */
  readonly connections?: number | undefined;
  /** Called for every request that is sent. */
  readonly onRequest?: (() => void) | undefined;
}

/** A client for the store that the environment and ~/.aws name. Idle connections do not keep the process alive. */
export async function nodeS3Client(options: NodeS3Options): Promise<S3Client> {
  const { engine, environment, s3, timeoutMs, retries, connections, onRequest } = options;
  const settings = await storeSettings(environment, s3);
  const own = options.transport === undefined ? nodeTransport({ environment, timeoutMs, connections }) : undefined;
  const inner = options.transport ?? (own as NodeTransport);
  return new S3Client({
    ...settings,
    transport: {
      conditions: inner.conditions,
      request: (request) => {
        onRequest?.();
        return inner.request(request);
      },
      close: async () => own?.close(),
    },
    sha256: (bytes) => engine.digest("sha256", bytes),
    ...(retries === undefined ? {} : { retry: { retries } }),
  });
}

/** Parts are sent whole, and a slow line needs minutes for one, so silence counts only after this. */
const WRITE_TIMEOUT_MS = 300_000;

/** What a call says about the store that it writes to. */
export type WritingOptions = Pick<
  OpenRequest,
  "engine" | "env" | "timeout" | "retries" | "concurrency" | "offline" | "s3" | "fetch"
>;

/** A client that writes to the store that the options and the environment name. */
export async function writingClient(options: WritingOptions): Promise<S3Client> {
  const { engine, env, timeout, retries, concurrency, offline, s3, fetch: send } = options;
  if (offline === true) {
    const message = "Cannot reach object storage: the option offline forbids the network";
    throw new SourceError("source/offline", message, { source: "s3" });
  }
  const timeoutMs = durationIn(timeout) ?? WRITE_TIMEOUT_MS;
  const transport = send === undefined ? undefined : fetchTransport(send);
  return nodeS3Client({ engine, environment: env, s3, transport, timeoutMs, retries, connections: concurrency });
}

/** The settings that the environment and ~/.aws name, where the caller names none. */
export async function storeSettings(environment: Environment = process.env, s3: S3Options = {}): Promise<S3Settings> {
  const settings = await readS3Settings({ ...environment, ...variablesOf(s3) });
  const { addressing = settings.endpoint.addressing } = s3;
  return { ...settings, endpoint: { ...settings.endpoint, addressing } };
}

/** The default; stores other than Amazon's mostly ignore it. */
const REGION = "us-east-1";
const EMPTY: Section = new Map();

/**
 * The settings for object storage, found as the AWS tools find them: the AWS_* variables first, then the profile in
 * ~/.aws. Without credentials, access is anonymous.
 */
export async function readS3Settings(environment: Environment = process.env): Promise<S3Settings> {
  const get = (name: string): string | undefined => environment[name]?.trim() || undefined;
  const named = get("AWS_PROFILE") ?? get("AWS_DEFAULT_PROFILE");
  const profile = named ?? "default";
  const home = get("HOME") ?? homeFolder();
  const inHome = (name: string): string | undefined => (home === undefined ? undefined : join(home, ".aws", name));
  const [config, shared] = await Promise.all([
    readProfileFile(get("AWS_CONFIG_FILE") ?? inHome("config")),
    readProfileFile(get("AWS_SHARED_CREDENTIALS_FILE") ?? inHome("credentials")),
  ]);
  const settings = configSection(config, profile) ?? EMPTY;
  const secrets = shared.get(profile);
  const fromEnvironment = keyFrom(get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY"), get("AWS_SESSION_TOKEN"));
  if (fromEnvironment === undefined && named !== undefined && secrets === undefined && settings === EMPTY) {
    throw settingsError(`AWS_PROFILE names "${named}", which neither ~/.aws/config nor ~/.aws/credentials has`);
  }
  const credentials = fromEnvironment ?? profileKey(secrets ?? EMPTY) ?? profileKey(settings);
  if (credentials === undefined) refuseProviders(settings, profile);
  return { endpoint: findEndpoint(get, settings, config), credentials };
}

function keyFrom(
  id: string | undefined,
  secret: string | undefined,
  token: string | undefined,
): Credentials | undefined {
  if (id === undefined && secret === undefined) return undefined;
  if (id === undefined || secret === undefined) {
    const missing = id === undefined ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY";
    throw settingsError(`${missing} is missing beside its other half`);
  }
  return { accessKeyId: id, secretAccessKey: secret, sessionToken: token };
}

function profileKey(section: Section): Credentials | undefined {
  return keyFrom(
    section.get("aws_access_key_id"),
    section.get("aws_secret_access_key"),
    section.get("aws_session_token"),
  );
}

/** If the profile should have a key, going on without it would end in a refusal that is hard to understand. */
function refuseProviders(settings: Section, profile: string): void {
  const provider = ["credential_process", "sso_session", "sso_start_url", "role_arn", "web_identity_token_file"].find(
    (name) => settings.has(name),
  );
  if (provider === undefined) return;
  throw settingsError(
    `the profile "${profile}" gets its key by "${provider}", which tare does not run`,
    'Put the key into the environment: eval "$(aws configure export-credentials --format env)"',
  );
}

function findEndpoint(get: (name: string) => string | undefined, settings: Section, config: ProfileFile): S3Endpoint {
  const region = get("AWS_REGION") ?? get("AWS_DEFAULT_REGION") ?? settings.get("region") ?? REGION;
  if (!/^[a-z0-9-]{1,40}$/i.test(region)) throw settingsError("the region must be letters, digits and dashes");
  const services = config.get(`services ${settings.get("services") ?? ""}`);
  const text =
    get("AWS_ENDPOINT_URL_S3") ??
    get("AWS_ENDPOINT_URL") ??
    services?.get("s3.endpoint_url") ??
    settings.get("s3.endpoint_url") ??
    settings.get("endpoint_url");
  const style = settings.get("s3.addressing_style");
  if (text === undefined) return { region, addressing: style === "path" ? "path" : "virtual-host" };
  return { region, url: checkEndpoint(text), addressing: style === "virtual" ? "virtual-host" : "path" };
}

function checkEndpoint(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain = url?.username === "" && url.password === "" && url.search === "" && url.hash === "";
  if (url !== undefined && isPlain && (url.protocol === "http:" || url.protocol === "https:")) return url.href;
  // The message does not repeat the URL: it may hold a password.
  throw settingsError("the endpoint (AWS_ENDPOINT_URL_S3) must be an http or https URL without a user or query");
}

async function readProfileFile(path: string | undefined): Promise<ProfileFile> {
  if (path === undefined) return new Map();
  try {
    return parseProfileFile(await readFile(path, "utf8"));
  } catch (error) {
    const code = errnoOf(error);
    if (code === "ENOENT" || code === "ENOTDIR") return new Map();
    throw fileError(error, `Cannot read the settings of object storage "${path}"`, { source: path });
  }
}

function settingsError(reason: string, hint?: string): UsageError {
  const message = `Cannot set up object storage: ${reason}`;
  return new UsageError("usage/s3.settings", message, { source: "environment" }, { hint });
}

/** Sections of the files that the AWS tools keep in ~/.aws, by their full heading. */
export type ProfileFile = ReadonlyMap<string, Section>;

/** Settings of a section. Indented ones below a setting are named "outer.inner". */
export type Section = ReadonlyMap<string, string>;

/** Reads the INI dialect of ~/.aws/config and ~/.aws/credentials. Other lines are skipped, as AWS does. */
function parseProfileFile(text: string): ProfileFile {
  const file = new Map<string, Map<string, string>>();
  let section = new Map<string, string>();
  let outer = "";
  for (const line of text.split(/\r?\n/)) {
    const heading = /^\[\s*([^\]]+?)\s*\]/.exec(line)?.[1];
    if (heading !== undefined) {
      const name = heading.replace(/\s+/g, " ");
      section = file.get(name) ?? new Map();
      file.set(name, section);
      outer = "";
      continue;
    }
    if (/^\s*([#;]|$)/.test(line)) continue;
    const setting = /^(\s*)([^\s=]+)\s*=\s*(.*?)\s*$/.exec(line);
    if (setting === null) continue;
    const [, indent = "", name = "", value = ""] = setting;
    if (indent === "") outer = name.toLowerCase();
    const key = indent === "" ? outer : `${outer}.${name.toLowerCase()}`;
    // A comment may follow a value, after a space.
    section.set(key, value.replace(/\s+[#;].*$/, ""));
  }
  return file;
}

/** A profile of ~/.aws/config: every one but "default" has a prefix. */
function configSection(file: ProfileFile, profile: string): Section | undefined {
  return file.get(`profile ${profile}`) ?? (profile === "default" ? file.get("default") : undefined);
}
