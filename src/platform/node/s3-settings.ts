import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { UsageError } from "../../base/errors.ts";
import type { S3Endpoint } from "../../bytes/s3/address.ts";
import type { S3Settings } from "../../bytes/s3/session.ts";
import type { Credentials } from "../../bytes/s3/sigv4.ts";
import { errnoOf, fileError } from "./errors.ts";
import type { Environment } from "./proxy-environment.ts";
import { configSection, type ProfileFile, parseProfileFile, type Section } from "./s3-profile.ts";

/** Where nobody says otherwise; stores that are not Amazon's mostly ignore it. */
const REGION = "us-east-1";
const EMPTY: Section = new Map();

/**
 * How to reach object storage, as the AWS tools find it out: the AWS_* variables first, then the profile in ~/.aws.
 * Without credentials access is anonymous.
 */
export async function readS3Settings(environment: Environment = process.env): Promise<S3Settings> {
  const get = (name: string): string | undefined => environment[name]?.trim() || undefined;
  const named = get("AWS_PROFILE") ?? get("AWS_DEFAULT_PROFILE");
  const profile = named ?? "default";
  const home = get("HOME") ?? homedir();
  const [config, shared] = await Promise.all([
    readProfileFile(get("AWS_CONFIG_FILE") ?? join(home, ".aws", "config")),
    readProfileFile(get("AWS_SHARED_CREDENTIALS_FILE") ?? join(home, ".aws", "credentials")),
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

/** Going on without a key where the profile means to have one would end in a refusal that nobody understands. */
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
  // Not repeated: it may hold a password.
  throw settingsError("the endpoint (AWS_ENDPOINT_URL_S3) must be an http or https URL without a user or query");
}

async function readProfileFile(path: string): Promise<ProfileFile> {
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
