/** Where `agl store` listens unless told otherwise. */
export const defaultStoreUrl = "http://127.0.0.1:4747";
