import type { Bytes } from "../../base/bytes.ts";
import { type CutManifest, loadEntryScan } from "./entry-scan.ts";
import { UsualRecords } from "./usual-records.ts";

/** What reads manifests that are written as usual many times as fast, and takes longer to load than a short one to read. */
export interface QuickReading {
  /** The manifest and its entries apart; undefined where some are not written as usual, or nothing can find them here. */
  cut(manifest: Bytes): CutManifest | undefined;
  /** Reads records of a text one by one; undefined where strings may have escapes. */
  usual(text: string): UsualRecords | undefined;
}

export async function loadQuickReading(): Promise<QuickReading> {
  const cut = await loadEntryScan().catch(() => () => undefined);
  return { cut, usual: (text) => (text.includes("\\") ? undefined : new UsualRecords(text)) };
}
