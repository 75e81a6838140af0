import { useId, useState } from "preact/hooks";

interface SearchFieldProps {
  /** For screen readers; people see the placeholder. */
  readonly label: string;
  readonly placeholder?: string;
  readonly value: string;
  readonly onText: (text: string) => void;
}

/** A field that narrows a list while the user types. */
export function SearchField({ label, placeholder = label, value, onText }: SearchFieldProps) {
  return (
    <label class="search">
      <span class="away">{label}</span>
      <input
        type="search"
        placeholder={placeholder}
        value={value}
        onInput={(event) => onText(event.currentTarget.value)}
      />
    </label>
  );
}

interface NumberFieldProps {
  readonly label: string;
  readonly value: number;
  readonly max: number;
  readonly onChange: (value: number) => void;
}

/** A whole number from 0 to `max`; anything else is ignored. */
export function NumberField({ label, value, max, onChange }: NumberFieldProps) {
  return (
    <label class="number-field">
      {label}
      <input
        type="number"
        min={0}
        max={max}
        value={value}
        onInput={(event) => {
          const next = Number(event.currentTarget.value);
          if (Number.isInteger(next) && next >= 0 && next <= max) onChange(next);
        }}
      />
    </label>
  );
}

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
