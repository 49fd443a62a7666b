// The globals that a script has besides the ECMAScript library (lib ES2023). There is no DOM, no
// Node.js and no network. ES2023 declares WeakRef and FinalizationRegistry, which the sandbox does
// not have: what they show depends on the garbage collector, and would differ on replay.

interface Console {
  debug(...data: unknown[]): void;
  log(...data: unknown[]): void;
  info(...data: unknown[]): void;
  warn(...data: unknown[]): void;
  error(...data: unknown[]): void;
}
/** Lines go to the run's journal. */
declare const console: Console;

/** A timer of the script's memory. To wait long, use `sleep` of `rewind:tools`. */
declare function setTimeout<Args extends unknown[]>(callback: (...args: Args) => void, ms?: number, ...args: Args): number;
declare function clearTimeout(id: number | undefined): void;
declare function queueMicrotask(callback: () => void): void;

/** A deep copy of data; functions and symbols are refused. */
declare function structuredClone<T>(value: T): T;

/** Base64 to a string of bytes. */
declare function atob(data: string): string;
/** A string of bytes to Base64. */
declare function btoa(data: string): string;

interface Crypto {
  /** The same on replay. */
  randomUUID(): `${string}-${string}-${string}-${string}-${string}`;
  /** The same on replay. */
  getRandomValues<T extends Int8Array | Uint8Array | Uint8ClampedArray | Int16Array | Uint16Array | Int32Array | Uint32Array | BigInt64Array | BigUint64Array>(array: T): T;
}
declare const crypto: Crypto;

interface TextEncoder {
  readonly encoding: "utf-8";
  encode(input?: string): Uint8Array<ArrayBuffer>;
}
declare const TextEncoder: { new (): TextEncoder; prototype: TextEncoder };

interface TextDecoder {
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  decode(input?: ArrayBufferLike | ArrayBufferView): string;
}
declare const TextDecoder: {
  new (label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }): TextDecoder;
  prototype: TextDecoder;
};

interface URL {
  hash: string;
  host: string;
  hostname: string;
  href: string;
  readonly origin: string;
  password: string;
  pathname: string;
  port: string;
  protocol: string;
  search: string;
  readonly searchParams: URLSearchParams;
  username: string;
  toString(): string;
  toJSON(): string;
}
declare const URL: {
  new (url: string | URL, base?: string | URL): URL;
  canParse(url: string | URL, base?: string | URL): boolean;
  prototype: URL;
};

interface URLSearchParams {
  readonly size: number;
  append(name: string, value: string): void;
  delete(name: string, value?: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  set(name: string, value: string): void;
  sort(): void;
  toString(): string;
  forEach(callback: (value: string, key: string, parent: URLSearchParams) => void): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}
declare const URLSearchParams: {
  new (init?: string | URLSearchParams | Record<string, string> | Iterable<[string, string]>): URLSearchParams;
  prototype: URLSearchParams;
};
