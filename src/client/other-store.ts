import { AglError } from "../errors.ts";

/** The store at an address is not the one that answered there before. */
export interface OtherStore {
  url: string;
  /** Store ids. */
  before: string;
  now: string;
}

export function describeOtherStore({ url, before, now }: OtherStore): string {
  return `the store at ${url} is another one than before (${before} then, ${now} now): what the old one held is not in it`;
}

/** For those whose work lies in the store that was there before. */
export function refuseOtherStore(change: OtherStore): never {
  throw new AglError("store", describeOtherStore(change), {
    remedy: "serve the old store again (the same --db), or start anew with the new one",
  });
}
