/**
 * The reserved metadata entry in which a conversion keeps what the target format has no place for, so that
 * converting back gives the same bytes. A reader that has never heard of tare sees one extra key.
 */
export const ORIGIN_KEY = "tare.origin";
