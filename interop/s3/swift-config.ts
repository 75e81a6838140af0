import { join } from "node:path";

/** The key of the store: an account and a user of Swift's own test authentication. */
export const SWIFT_KEY = { id: "test:tester", secret: "testing" };

const SERVERS = ["object", "container", "account"] as const;
export type StorageServer = (typeof SERVERS)[number];

/** The ports on loopback. */
export const SWIFT_PORTS = { proxy: 9301, memcached: 9302, object: 9303, container: 9304, account: 9305 } as const;

/** The files of /etc/swift by name, for one machine with one device below `folder`. */
export function swiftFiles(folder: string): Readonly<Record<string, string>> {
  const storage = SERVERS.map((server) => [`${server}-server.conf`, storageFile(server, folder)] as const);
  return {
    "swift.conf": ini({
      "swift-hash": { swift_hash_path_suffix: "tare", swift_hash_path_prefix: "interop" },
      "storage-policy:0": { name: "Policy-0", default: "yes" },
    }),
    "proxy-server.conf": proxyFile(),
    ...Object.fromEntries(storage),
  };
}

/** The commands that make the rings, which say which device holds what. */
export function ringCommands(): readonly (readonly string[])[] {
  return SERVERS.flatMap((server) => {
    const builder = `${server}.builder`;
    return [
      [builder, "create", "4", "1", "0"],
      [builder, "add", `r1z1-127.0.0.1:${SWIFT_PORTS[server]}/d0`, "1"],
      [builder, "rebalance"],
    ];
  });
}

function storageFile(server: StorageServer, folder: string): string {
  return ini({
    DEFAULT: {
      ...common(SWIFT_PORTS[server]),
      devices: join(folder, "devices"),
      // A folder replaces a separate disk.
      mount_check: "false",
      fallocate_reserve: "0",
    },
    "pipeline:main": { pipeline: `${server}-server` },
    [`app:${server}-server`]: { use: `egg:swift#${server}` },
  });
}

function proxyFile(): string {
  return ini({
    DEFAULT: common(SWIFT_PORTS.proxy),
    "pipeline:main": { pipeline: "catch_errors cache listing_formats s3api tempauth copy slo dlo proxy-server" },
    "app:proxy-server": { use: "egg:swift#proxy", account_autocreate: "true" },
    "filter:catch_errors": { use: "egg:swift#catch_errors" },
    "filter:cache": { use: "egg:swift#memcache", memcache_servers: `127.0.0.1:${SWIFT_PORTS.memcached}` },
    "filter:listing_formats": { use: "egg:swift#listing_formats" },
    "filter:s3api": { use: "egg:swift#s3api", location: "us-east-1", max_upload_part_num: "10000" },
    "filter:tempauth": { use: "egg:swift#tempauth", user_test_tester: `${SWIFT_KEY.secret} .admin` },
    "filter:copy": { use: "egg:swift#copy" },
    "filter:slo": { use: "egg:swift#slo" },
    "filter:dlo": { use: "egg:swift#dlo" },
  });
}

function common(port: number): Record<string, string> {
  return { bind_ip: "127.0.0.1", bind_port: String(port), workers: "1", user: "root" };
}

function ini(sections: Readonly<Record<string, Readonly<Record<string, string>>>>): string {
  const text = Object.entries(sections).map(([name, values]) => {
    const lines = Object.entries(values).map(([key, value]) => `${key} = ${value}\n`);
    return `[${name}]\n${lines.join("")}`;
  });
  return text.join("\n");
}
