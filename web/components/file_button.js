// A button that lets the user pick files.
import {html, useRef} from '../lib/preact.js';

export function FileButton({onFiles, accept, multiple = false, disabled = false, className = '', label, children}) {
  const input = useRef(null);
  const onChange = () => {
    const files = [...input.current.files];
    input.current.value = '';  // the same file may be picked again
    onFiles(files);
  };
  return html`
    <button type="button" class=${className} disabled=${disabled} aria-label=${label} title=${label}
            onClick=${() => input.current.click()}>${children}</button>
    <input type="file" hidden ref=${input} accept=${accept} multiple=${multiple} onChange=${onChange} />`;
}
