// Checks the paths of a vault in the bytes of its manifest, one after the other: whether each is proper by the rules of
// the format and greater than the one before. The caller has ruled out control characters and backslashes.

const DOT: u32 = 0x2e;
const SLASH: u32 = 0x2f;
const COLON: u32 = 0x3a;
const MOST_PATH: usize = 4096;

/** A copy of the last path of the previous window. */
const PATH: usize = memory.data(4096, 16);

/** The previous path, and where its name begins. */
let path: usize = 0;
let pathLength: usize = 0;
let nameStart: usize = 0;
let hasPath: bool = false;
let proper: bool = true;

export function beginPaths(): void {
  proper = true;
  hasPath = false;
  path = PATH;
  pathLength = 0;
  nameStart = 0;
}

export function arePathsProper(): bool {
  return proper;
}

export function wipePaths(): void {
  memory.fill(PATH, 0, MOST_PATH);
}

/** How many of `byteLength` bytes two places have in common. */
export function sharedLength(a: usize, b: usize, byteLength: usize): usize {
  for (let i: usize = 0; i < byteLength; i += 16) {
    const other = ~i8x16.bitmask(i8x16.eq(v128.load(a + i), v128.load(b + i))) & 0xffff;
    if (other != 0) return min<usize>(i + <usize>ctz(other), byteLength);
  }
  return byteLength;
}

/**
 * Checks the next path. True if it is in another folder than the one before. On any doubt, only records that the host
 * must check every path: the fault is not named here.
 */
export function judgePath(start: usize, stop: usize): bool {
  if (!proper) return false;
  const length = stop - start;
  const shared = sharedLength(start, path, min<usize>(length, pathLength));
  const name = findName(start, length, shared);
  if (name == usize.MAX_VALUE || !isBehind(start, length, shared)) {
    proper = false;
    return false;
  }
  const beginsFolder = !hasPath || name != nameStart || name > shared;
  hasPath = true;
  path = start;
  pathLength = length;
  nameStart = name;
  return beginsFolder;
}

/** Whether the path comes after the previous one. UTF-8 has the order of code points, which is that of manifests. */
@inline
function isBehind(start: usize, length: usize, shared: usize): bool {
  if (shared == length) return false;
  return shared == pathLength || <u32>load<u8>(start + shared) > <u32>load<u8>(path + shared);
}

/**
 * Where the name begins in a path; the greatest number if the path may not be proper. Shared folders were checked
 * before.
 */
function findName(start: usize, length: usize, shared: usize): usize {
  if (length == 0 || length > MOST_PATH) return usize.MAX_VALUE;
  const stop = start + length;
  // White space at the ends: a space is the only ASCII one that comes here. Other characters are for the host to check.
  if (isDoubtful(load<u8>(start)) || isDoubtful(load<u8>(stop - 1))) return usize.MAX_VALUE;
  if (length > 1 && <u32>load<u8>(start, 1) == COLON) return usize.MAX_VALUE;
  let component = shared >= nameStart ? start + nameStart : start;
  for (let i = component; i <= stop; i++) {
    if (i < stop && <u32>load<u8>(i) != SLASH) continue;
    const bytes = i - component;
    if (bytes == 0) return usize.MAX_VALUE;
    if (bytes <= 2 && <u32>load<u8>(component) == DOT && (bytes == 1 || <u32>load<u8>(component, 1) == DOT)) {
      return usize.MAX_VALUE;
    }
    if (i < stop) component = i + 1;
  }
  return component - start;
}

@inline
function isDoubtful(byte: u8): bool {
  return byte <= 0x20 || byte >= 0x80;
}

/** Keeps the last path for the next window. */
export function keepPath(): void {
  if (!proper || path == PATH) return;
  memory.copy(PATH, path, pathLength);
  path = PATH;
}
