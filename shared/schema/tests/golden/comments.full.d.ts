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

  export const server: {
    /**
     * ts-expect-error
     * @observed 0 results: any, for there is no output schema
     */
    directive: OptionalTool<{ [key: string]: unknown }>;
    /**
     * Ends *\/ the comment
     * ts-expect-error
     * @observed 0 results: any, for there is no output schema
     */
    ends: OptionalTool<Open<{
      /**
       * *\/ }; ts-ignore
       *
       *  *\/
       * @default "*\/"
       * @pattern *\/
       */
      x?: unknown;
    }>>;
    /** @observed 0 results: any, for there is no output schema */
    later: OptionalTool<{ [key: string]: unknown }>;
  };

  export const host: {};
}
