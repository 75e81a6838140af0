export { isTareError, TareError } from "./base/errors.ts";
