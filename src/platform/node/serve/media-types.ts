import { extname } from "node:path";

const TEXT = "text/plain; charset=utf-8";

/**
 * Files here are data, never pages: what a browser would run (HTML, SVG, scripts) is text to look at. Weights
 * have no registered types.
 */
const TYPES: Readonly<Record<string, string>> = {
  ".json": "application/json",
  ".jsonl": TEXT,
  ".txt": TEXT,
  ".md": TEXT,
  ".csv": TEXT,
  ".yaml": TEXT,
  ".yml": TEXT,
  ".toml": TEXT,
  ".py": TEXT,
  ".js": TEXT,
  ".mjs": TEXT,
  ".html": TEXT,
  ".htm": TEXT,
  ".svg": TEXT,
  ".xml": TEXT,
  ".jinja": TEXT,
  ".pem": TEXT,
  ".sig": TEXT,
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
  ".pdf": "application/pdf",
  ".zip": "application/zip",
  ".wasm": "application/wasm",
};

/** By extension, in any case. */
export function mediaTypeOf(name: string): string {
  const extension = extname(name).toLowerCase();
  return (Object.hasOwn(TYPES, extension) ? TYPES[extension] : undefined) ?? "application/octet-stream";
}
