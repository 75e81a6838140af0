import type { Finding } from "../../model/finding.ts";
import type { FileVerdict } from "./repair.ts";

/** What is wrong with a file by its sidecar, and with the sidecar itself. */
export function correctFindings(label: string, verdict: FileVerdict): readonly Finding[] {
  return [...fileFindings(label, verdict), ...verdict.sidecar.findings, ...parityFindings(verdict)];
}

function fileFindings(label: string, { state, sidecar, health }: FileVerdict): Finding[] {
  if (state === "intact") return [];
  const at = { source: label };
  const message = `"${label}" is not the file that "${sidecar.label}" was made of: ${healthText(health)}`;
  if (state === "damaged") {
    const hint = "Parity suffices to heal it: tare correct repair";
    return [{ severity: "error", code: "integrity/aerocorrect.damaged", message, at, hint }];
  }
  const hint = "That is more than parity can heal, or the sidecar is of another file; get another copy of the file";
  return [{ severity: "error", code: "integrity/aerocorrect.lost", message, at, hint }];
}

/** Where the digest says that the file is whole, a shard that differs from its checksum is damage of the checksum. */
function parityFindings({ state, sidecar, health }: FileVerdict): Finding[] {
  const damaged = health.damagedParityShards + (state === "intact" ? health.damagedDataShards : 0);
  if (damaged === 0) return [];
  const message = `Parity in "${sidecar.label}" is damaged, in ${damaged} ${damaged === 1 ? "place" : "places"}`;
  const hint = "Make it again while the file is whole: tare correct gen --force";
  const at = { source: sidecar.label };
  return [{ severity: "warning", code: "integrity/aerocorrect.parity", message, at, hint }];
}

/** "3 of 977 data shards and 1 of 154 parity shards damaged". */
export function healthText({
  dataShards,
  damagedDataShards,
  parityShards,
  damagedParityShards,
}: FileVerdict["health"]): string {
  return `${damagedDataShards} of ${dataShards} data shards and ${damagedParityShards} of ${parityShards} parity shards damaged`;
}
