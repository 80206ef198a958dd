import { randomBytes } from "node:crypto";

/** A random id such as `ro-699b7ca1d1b1` that is not taken yet. */
export function freshId(prefix: string, bytes: number, isTaken: (id: string) => boolean): string {
  for (;;) {
    const id = prefix + randomBytes(bytes).toString("hex");
    if (!isTaken(id)) return id;
  }
}
