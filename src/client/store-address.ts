export interface StoreAddress {
  /** Without anything secret. */
  url: string;
  /** Value of the `Authorization` header. */
  authorization?: string;
}

/**
 * A store's address as users write it: plain, or with the token in it as a path (`http://host:4747/t/TOKEN`) or as a
 * password (`http://agl:TOKEN@host:4747`). What is in the address wins over the token given beside it.
 */
export function storeAddress(given: string, token?: string): StoreAddress {
  const url = new URL(given);
  const [, below = "", inPath] = /^(.*?)\/t\/([^/]+)\/*$/.exec(url.pathname) ?? [];
  if (inPath !== undefined) {
    const clean = `${url.protocol}//${url.host}${below}`;
    return { url: clean, authorization: `Bearer ${decoded(inPath)}` };
  }
  if (url.username !== "" || url.password !== "") {
    const credentials = `${decoded(url.username)}:${decoded(url.password)}`;
    const clean = `${url.protocol}//${url.host}${url.pathname}`.replace(/\/+$/, "");
    return { url: clean, authorization: `Basic ${Buffer.from(credentials).toString("base64")}` };
  }
  const clean = given.replace(/\/+$/, "");
  return token === undefined ? { url: clean } : { url: clean, authorization: `Bearer ${token}` };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
