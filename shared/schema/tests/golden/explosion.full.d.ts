declare module "rewind:tools" {
  /** A tool. It rejects with a `ToolError`. */
  export interface Tool<Args, Result = any> {
    (args: Args): Promise<Result>;
    /** The whole MCP result: all content blocks and `_meta`. */
    raw(args: Args): Promise<McpResult>;
  }

  /** A tool that needs no argument. */
  export interface OptionalTool<Args, Result = any> {
    (args?: Args): Promise<Result>;
    /** The whole MCP result: all content blocks and `_meta`. */
    raw(args?: Args): Promise<McpResult>;
  }

  /** Further members are allowed, in a literal and in a variable of any type. */
  export type Open<Args> = Args | (Args & { [key: string]: unknown });

  /** The result of a call as the MCP server sent it. */
  export interface McpResult {
    content: ContentBlock[];
    structuredContent?: any;
    isError?: boolean;
    _meta?: { [key: string]: unknown };
  }

  /** A block of content: text, image, audio, a resource or a link to one. */
  export interface ContentBlock {
    type: string;
    text?: string;
    /** Base64. */
    data?: string;
    mimeType?: string;
    uri?: string;
    resource?: { uri: string; mimeType?: string; text?: string; blob?: string };
    [key: string]: unknown;
  }

  /** What a failed call rejects with. An uncaught one fails the run. */
  export class ToolError extends Error {
    private constructor();
    readonly code:
      | "invalid_arguments" | "tool_failed" | "invalid_result" | "timeout" | "unavailable" | "outcome_unknown"
      | "rejected" | "credentials" | "refused" | "too_large" | "cancelled" | "not_recorded";
    /** `export.name` of the tool. */
    readonly tool: string;
    /** May the same call succeed later? */
    readonly retryable: boolean;
    readonly details?: any;
    /** The call's idempotency key. */
    readonly key: string;
  }

  /** Milliseconds, or a text such as `"90s"`, `"12h"`, `"10d"`. The run may sleep for days: it costs nothing. */
  export function sleep(duration: number | string): Promise<void>;

  export type D0 = D1;

  export type D1 = D2;

  export type D2 = D3;

  export type D3 = D4;

  export type D4 = D5;

  export type D5 = D6;

  export type D6 = D7;

  export type D7 = D8;

  export type D8 = D9;

  export type D9 = D10;

  export type D10 = D11;

  export type D11 = D12;

  export type D12 = D13;

  export type D13 = D14;

  export type D14 = D15;

  export type D15 = D16;

  export type D16 = D17;

  export type D17 = D18;

  export type D18 = D19;

  export type D19 = D20;

  export type D20 = D21;

  export type D21 = D22;

  export type D22 = D23;

  export type D23 = D24;

  export type D24 = D25;

  export type D25 = D26;

  export type D26 = D27;

  export type D27 = D28;

  export type D28 = D29;

  export type D29 = D30;

  export type D30 = D31;

  export type D31 = D32;

  export type D32 = D33;

  export type D33 = D34;

  export type D34 = D35;

  export type D35 = D36;

  export type D36 = D37;

  export type D37 = D38;

  export type D38 = D39;

  export type D39 = {
    x: unknown;
    [key: string]: any;
  };

  export const server: {
    /** @observed 0 results: any, for there is no output schema */
    doubling: Tool<D0>;
    /** @observed 0 results: any, for there is no output schema */
    product: OptionalTool<Open<{
      x?: never;
    }>>;
  };

  export const host: {};
}
