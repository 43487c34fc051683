import { useEffect, useRef } from 'preact/hooks';

const keys: [string, string][] = [
  ['/', 'search frames'],
  ['Tab', 'to the graph, the values, the tables'],
  ['← →', 'frames beside this one'],
  ['↑ ↓', 'callers and what they call'],
  ['Enter', 'zoom into the frame'],
  ['Backspace', 'zoom out by one frame'],
  ['Esc', 'zoom out to all'],
  ['Home', 'the outermost frame'],
  ['?', 'this help'],
];

export function Help({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={close}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}>
      <div class="inside">
        <h2 id="help-title">Reading this page</h2>
        <p>
          Each bar is a function; those below it (above, as a flame) are what it called; its width is the
          time spent in it. Under “Group by”, the outermost bars are values of labels.
        </p>
        <dl>{keys.map(([key, what]) => <><dt><kbd>{key}</kbd></dt><dd>{what}</dd></>)}</dl>
        <p>
          A filter reads as on the command line: <code>tenant=acme</code>, <code>route~^/pay</code>,{' '}
          <code>step!=idle</code>, <code>route!~health</code>; <code>tenant=</code> is “has no tenant”. The
          address of the page holds the view, so that it can be shared with the file.
        </p>
        <button class="button" onClick={() => dialog.current?.close()}>Close</button>
      </div>
    </dialog>
  );
}
