// URL, TextEncoder, structuredClone and their like, made when a script first touches one of them.
// The same care as in prelude.js: what is needed of built-in objects comes in `own`, taken before
// the script began. `host` has the parts that Rust does.

export default function makeWeb(host, own) {
  return { __proto__: null, ...makeUrl(host, own), ...makeText(host, own), structuredClone: makeClone(own), bytesOf: (view) => bytesOf(own, view) };
}

const text = (own, value) => own.toWellFormed(own.String(value));

/** An Error with the name that a DOMException would have. */
function domError(own, name, message) {
  const error = new own.Error(message);
  own.define(error, 'name', name);
  return error;
}

/** The bytes that a view shows, shared with it; undefined if it is no view and no buffer. */
function bytesOf(own, view) {
  if (own.typedArrayTag(view) !== undefined) return new own.Uint8Array(own.typedArrayBuffer(view), own.typedArrayOffset(view), own.typedArrayBytes(view));
  try {
    return new own.Uint8Array(own.viewBuffer(view), own.viewOffset(view), own.viewBytes(view));
  } catch {}
  try {
    own.bufferLength(view);
  } catch {
    return undefined;
  }
  return new own.Uint8Array(view);
}

// ---- URL

function makeUrl(host, own) {
  /** Connects the two classes without showing how to a script. */
  let paramsOf;
  let follow;

  class URL {
    #href;
    #params;
    constructor(url, base) {
      const href = host.urlParse(text(own, url), base === undefined ? null : text(own, base));
      if (href == null) throw new own.TypeError(own.stringify(own.sliceText(text(own, url), 0, 200)) + ' is no URL');
      this.#href = href;
    }
    static canParse(url, base) {
      return host.urlParse(text(own, url), base === undefined ? null : text(own, base)) != null;
    }
    static parse(url, base) {
      return URL.canParse(url, base) ? new URL(url, base) : null;
    }
    get href() {
      return this.#href;
    }
    set href(value) {
      this.#href = new URL(value).#href;
      this.#refresh();
    }
    get origin() {
      return host.urlGet(this.#href, 'origin');
    }
    get searchParams() {
      if (this.#params === undefined) {
        this.#params = new URLSearchParams();
        follow(this.#params, (query) => {
          this.#href = host.urlSet(this.#href, 'search', query);
        });
        this.#refresh();
      }
      return this.#params;
    }
    #refresh() {
      if (this.#params !== undefined) paramsOf(this.#params, host.urlGet(this.#href, 'search'));
    }
    static {
      const parts = ['protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash'];
      for (let i = 0; i < parts.length; i++) {
        const part = parts[i];
        own.defineProperty(URL.prototype, part, {
          __proto__: null,
          configurable: true,
          enumerable: true,
          get() {
            return host.urlGet(this.#href, part);
          },
          set(value) {
            this.#href = host.urlSet(this.#href, part, text(own, value));
            if (part === 'search') this.#refresh();
          },
        });
      }
    }
    toString() {
      return this.#href;
    }
    toJSON() {
      return this.#href;
    }
  }

  class URLSearchParams {
    /** Name, value, name, value, … */
    #flat = own.list();
    #changed = () => {};
    static {
      paramsOf = (params, query) => {
        params.#flat = fromQuery(query);
      };
      follow = (params, changed) => {
        params.#changed = changed;
      };
    }
    constructor(init = '') {
      if (typeof init !== 'object' || init === null) this.#flat = fromQuery(text(own, init));
      else if (#flat in init) this.#flat = copy(init.#flat);
      else if (init[own.iteratorSymbol] !== undefined) {
        for (const pair of init) {
          push(this.#flat, text(own, pair[0]), text(own, pair[1]));
        }
      } else {
        const keys = own.ownKeys(init);
        for (let i = 0; i < keys.length; i++) {
          if (typeof keys[i] === 'string') push(this.#flat, text(own, keys[i]), text(own, init[keys[i]]));
        }
      }
    }
    get size() {
      return this.#flat.length / 2;
    }
    append(name, value) {
      push(this.#flat, text(own, name), text(own, value));
      this.#write();
    }
    delete(name, value) {
      this.#keep((n, v) => n !== text(own, name) || (value !== undefined && v !== text(own, value)));
      this.#write();
    }
    get(name) {
      const wanted = text(own, name);
      for (let i = 0; i < this.#flat.length; i += 2) if (this.#flat[i] === wanted) return this.#flat[i + 1];
      return null;
    }
    getAll(name) {
      const wanted = text(own, name);
      const values = [];
      for (let i = 0; i < this.#flat.length; i += 2) {
        if (this.#flat[i] === wanted) own.defineProperty(values, values.length, own.data(this.#flat[i + 1], true));
      }
      return values;
    }
    has(name, value) {
      const wanted = text(own, name);
      for (let i = 0; i < this.#flat.length; i += 2) {
        if (this.#flat[i] === wanted && (value === undefined || this.#flat[i + 1] === text(own, value))) return true;
      }
      return false;
    }
    set(name, value) {
      const wanted = text(own, name);
      let found = false;
      this.#keep((n, _, at) => {
        if (n !== wanted) return true;
        if (found) return false;
        found = true;
        this.#flat[at + 1] = text(own, value);
        return true;
      });
      if (!found) push(this.#flat, wanted, text(own, value));
      this.#write();
    }
    sort() {
      // Stable, by insertion: a query is short.
      const flat = this.#flat;
      for (let i = 2; i < flat.length; i += 2) {
        const name = flat[i];
        const value = flat[i + 1];
        let at = i;
        for (; at > 0 && flat[at - 2] > name; at -= 2) {
          flat[at] = flat[at - 2];
          flat[at + 1] = flat[at - 1];
        }
        flat[at] = name;
        flat[at + 1] = value;
      }
      this.#write();
    }
    forEach(callback, self) {
      for (let i = 0; i < this.#flat.length; i += 2) own.apply(callback, self, [this.#flat[i + 1], this.#flat[i], this]);
    }
    entries() {
      return walk(this.#flat, (i, flat) => [flat[i], flat[i + 1]]);
    }
    keys() {
      return walk(this.#flat, (i, flat) => flat[i]);
    }
    values() {
      return walk(this.#flat, (i, flat) => flat[i + 1]);
    }
    toString() {
      return host.queryWrite(own.stringify(this.#flat));
    }
    #keep(wanted) {
      const kept = own.list();
      for (let i = 0; i < this.#flat.length; i += 2) {
        if (wanted(this.#flat[i], this.#flat[i + 1], i)) push(kept, this.#flat[i], this.#flat[i + 1]);
      }
      this.#flat = kept;
    }
    #write() {
      this.#changed(this.toString());
    }
  }
  own.define(URLSearchParams.prototype, own.iteratorSymbol, URLSearchParams.prototype.entries);

  function push(flat, name, value) {
    flat[flat.length] = name;
    flat[flat.length] = value;
  }
  function copy(flat) {
    const made = own.list();
    for (let i = 0; i < flat.length; i++) made[i] = flat[i];
    return made;
  }
  function fromQuery(query) {
    return own.setPrototypeOf(own.parse(host.queryParse(own.startsWith(query, '?') ? own.sliceText(query, 1) : query)), null);
  }
  function walk(flat, item) {
    let at = -2;
    const next = () => {
      at += 2;
      return at < flat.length ? { value: item(at, flat), done: false } : { value: undefined, done: true };
    };
    return own.setPrototypeOf({ next }, own.IteratorPrototype);
  }
  return { URL, URLSearchParams };
}

// ---- TextEncoder, TextDecoder, base64

function makeText(host, own) {
  class TextEncoder {
    get encoding() {
      return 'utf-8';
    }
    encode(input = '') {
      return host.utf8Encode(text(own, input));
    }
    encodeInto(source, target) {
      const input = text(own, source);
      const room = own.typedArrayBytes(target);
      let read = 0;
      let written = 0;
      while (read < input.length) {
        // A code point is one unit, or two that belong together: well-formed text has no other.
        const unit = input[read];
        const units = unit >= '\ud800' && unit <= '\udbff' ? 2 : 1;
        const bytes = host.utf8Encode(own.sliceText(input, read, read + units));
        if (written + bytes.length > room) break;
        own.setBytes(target, bytes, written);
        read += units;
        written += bytes.length;
      }
      return { read, written };
    }
  }
  class TextDecoder {
    #fatal;
    #ignoreBOM;
    constructor(label = 'utf-8', options = undefined) {
      const name = own.String(label);
      if (name !== 'utf-8' && name !== 'utf8' && name !== 'UTF-8') throw new own.Error('TextDecoder reads UTF-8, not ' + own.sliceText(name, 0, 40));
      this.#fatal = !!options?.fatal;
      this.#ignoreBOM = !!options?.ignoreBOM;
    }
    get encoding() {
      return 'utf-8';
    }
    get fatal() {
      return this.#fatal;
    }
    get ignoreBOM() {
      return this.#ignoreBOM;
    }
    decode(input) {
      if (input === undefined) return '';
      const bytes = typeof input === 'object' && input !== null ? bytesOf(own, input) : undefined;
      if (bytes === undefined) throw new own.TypeError('TextDecoder.decode takes an ArrayBuffer or a view of one');
      const decoded = host.utf8Decode(bytes, this.#fatal, this.#ignoreBOM);
      if (decoded == null) throw new own.TypeError('the bytes are no UTF-8');
      return decoded;
    }
  }
  const btoa = (value) => {
    const encoded = host.btoa(text(own, value));
    if (encoded == null) throw domError(own, 'InvalidCharacterError', 'btoa takes text of characters up to U+00FF; encode it with TextEncoder first');
    return encoded;
  };
  const atob = (value) => {
    const decoded = host.atob(text(own, value));
    if (decoded == null) throw domError(own, 'InvalidCharacterError', 'the text is no base64');
    return decoded;
  };
  return { TextEncoder, TextDecoder, btoa, atob };
}

// ---- structuredClone

function makeClone(own) {
  const refuse = (value) => domError(own, 'DataCloneError', own.inspect(value) + ' cannot be cloned');

  function clone(value, seen) {
    if (typeof value === 'function' || typeof value === 'symbol') throw refuse(value);
    if (typeof value !== 'object' || value === null) return value;
    if (seen.has(value)) return seen.get(value);
    const made = shell(value);
    seen.set(value, made);
    if (own.isArray(value) || own.getPrototypeOf(made) === own.NativeObject.prototype) members(value, made, seen);
    else if (isMap(value)) each(own.mapForEach, value, (v, k) => own.mapSet(made, clone(k, seen), clone(v, seen)));
    else if (isSet(value)) each(own.setForEach, value, (v) => own.setAdd(made, clone(v, seen)));
    else if (own.isError(value) && own.hasOwn(value, 'cause')) own.define(made, 'cause', clone(value.cause, seen));
    return made;
  }

  /** The walk must not see what is added while it goes on. */
  function each(forEach, collection, visit) {
    const items = own.list();
    forEach(collection, (value, key) => {
      items[items.length] = [value, key];
    });
    for (let i = 0; i < items.length; i++) visit(items[i][0], items[i][1]);
  }

  function members(value, made, seen) {
    const keys = own.ownKeys(value);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      if (typeof key === 'symbol') continue;
      const found = own.getOwnPropertyDescriptor(value, key);
      if (found !== undefined && found.enumerable) own.defineProperty(made, key, own.data(clone(value[key], seen), true));
    }
  }

  /** An empty object of the same kind. */
  function shell(value) {
    if (own.isArray(value)) {
      const made = [];
      made.length = value.length;
      return made;
    }
    if (own.isError(value)) return error(value);
    if (isMap(value)) return new own.Map();
    if (isSet(value)) return new own.Set();
    return date(value) ?? pattern(value) ?? buffer(value) ?? boxed(value) ?? {};
  }

  const attempt = (make) => {
    try {
      return make();
    } catch {
      return undefined;
    }
  };
  const isMap = (value) => attempt(() => own.mapSize(value)) !== undefined;
  const isSet = (value) => attempt(() => own.setSize(value)) !== undefined;
  const date = (value) => {
    const time = attempt(() => own.dateValue(value));
    return time === undefined ? undefined : new own.Date(time);
  };
  const pattern = (value) => {
    const source = attempt(() => own.regexpSource(value));
    // The source of RegExp.prototype itself can be read too; it is a plain object.
    return source === undefined || value === own.RegExp.prototype ? undefined : new own.RegExp(source, own.regexpFlags(value));
  };
  const boxed = (value) =>
    attempt(() => new own.Number(own.numberValue(value))) ??
    attempt(() => new own.String(own.stringValue(value))) ??
    attempt(() => new own.Boolean(own.booleanValue(value)));
  function buffer(value) {
    const tag = own.typedArrayTag(value);
    if (tag !== undefined) {
      const start = own.typedArrayOffset(value);
      return new own.typedArrays[tag](own.bufferSlice(own.typedArrayBuffer(value), start, start + own.typedArrayBytes(value)));
    }
    const length = attempt(() => own.bufferLength(value));
    return length === undefined ? undefined : own.bufferSlice(value, 0, length);
  }
  function error(value) {
    const name = own.hasOwn(own.errors, value.name) ? value.name : 'Error';
    return new own.errors[name](own.String(value.message));
  }

  return (value) => clone(value, own.safeMap());
}
