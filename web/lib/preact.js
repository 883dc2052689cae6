// The one place that names the vendored view library.
export {
  html, render, useEffect, useLayoutEffect, useMemo, useRef, useState, useCallback,
} from '../vendor/preact-htm.js';
