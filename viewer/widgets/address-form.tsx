import { useId, useState } from "preact/hooks";

interface AddressFormProps {
  readonly label: string;
  readonly button: string;
  readonly onUrl: (url: string) => void;
}

/** A field for an address, and the button that opens it. */
export function AddressForm({ label, button, onUrl }: AddressFormProps) {
  const [url, setUrl] = useState("");
  const id = useId();
  return (
    <form
      class="address"
      onSubmit={(event) => {
        event.preventDefault();
        if (url.trim() !== "") onUrl(url.trim());
      }}
    >
      <label for={id}>{label}</label>
      <div class="joined">
        <input
          id={id}
          type="text"
          inputMode="url"
          spellcheck={false}
          placeholder="https://…/model.gguf"
          value={url}
          onInput={(event) => setUrl(event.currentTarget.value)}
        />
        <button type="submit">{button}</button>
      </div>
    </form>
  );
}
