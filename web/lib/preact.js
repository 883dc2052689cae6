// The one place that names the vendored view library.
export {
  Component, html, render, useEffect, useLayoutEffect, useMemo, useRef, useState, useCallback,
} from '../vendor/preact-htm.js';
